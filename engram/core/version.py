"""The version, for records and pages."""

VERSION = "0.2.0"
