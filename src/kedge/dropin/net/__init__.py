"""HTTP with a limit for everything: names, connections, TLS, proxies, redirects, and the answer.

http_addresses    addresses of HTTP servers
http_client       one HTTP request with a limit for everything
http_connections  connections: name resolution and proxies
http_proxies      which proxy a request takes
http_tls          connections: TLS
http_wire         reading a response
"""
