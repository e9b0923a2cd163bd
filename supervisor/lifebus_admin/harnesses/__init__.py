"""The harnesses on this machine: what is installed for them, how it stands, which version they are, whether it works.

Above: the command line, the doctor.  Below: the installer, the adapters' assets.
"""
