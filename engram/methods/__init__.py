"""The methods. Each is one file here and nothing else: the file's name is the method's. A leading underscore: what a
family of methods shares."""
