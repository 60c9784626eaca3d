"""Limits of the page's server: sizes, times, connections and queued work."""

MAX_BODY_BYTES = 2**22
MAX_HEAD_BYTES = 2**15  # request line and headers
MAX_CONNECTIONS = 320
MAX_REFUSED = 128  # connections above MAX_CONNECTIONS that receive a response; more are closed
MAX_JOBS = 256  # jobs that wait for the compute thread
BACKLOG = 1024  # connections that the operating system queues

HEAD_SECONDS = 10.0  # to receive the request line and the headers
BODY_SECONDS = 30.0  # to receive the body
SEND_SECONDS = 60.0  # that a client may read nothing of a response
KEEP_ALIVE_SECONDS = 75  # between two requests of a connection
LINGER_SECONDS = 2.0  # a refused client may read the response before the connection is closed
STOP_SECONDS = 1.0  # for open requests to end when the server stops
HEARTBEAT_SECONDS = 15.0  # between two messages of an event stream
RETRY_SECONDS = 1  # a client should wait before it repeats a request that was refused with 503
