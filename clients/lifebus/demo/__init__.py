"""The demonstration: recorded sessions through real hooks into a real broker, followed, and proved complete.

Above: `lifebus demo`.  Below: the client library, the hook, a broker as a child process.
"""
