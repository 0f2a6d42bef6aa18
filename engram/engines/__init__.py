"""Where runs are computed: processes of this machine, or a Ray cluster."""
