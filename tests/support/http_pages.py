"""A web page, and an HTTP response that holds it."""

HTML = (
    "<!DOCTYPE html><html><head><title>Mühle</title></head><body><p>The mill stands — "
    "still.</p></body></html>"
)
BODY = HTML.encode()


def http(
    body: bytes, *headers: str, status: str = "HTTP/1.1 200 OK", end: bytes = b"\r\n"
) -> bytes:
    """A response as bytes; Content-Type is text/html where it is not given."""
    lines = [status, *headers]
    if not any(line.lower().startswith("content-type") for line in headers):
        lines.insert(1, "Content-Type: text/html")
    return end.join(line.encode("latin-1") for line in lines) + end + end + body
