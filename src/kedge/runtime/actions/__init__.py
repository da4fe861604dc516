"""What the runtime does itself for prerequisites, each action in a process of its own.

program          the process of an action
base             how actions fail, report and retry
download         the action download
git              the action git
tensorboard      the service tensorboard
git_credential   program: answers git's questions for credentials
git_failures     what git's messages mean
http_download    fetches a file, resumes and retries
http_request     one request: proxies, redirects, TLS
http_headers     reads headers of answers
http_timeouts    how long to wait for a server
backoff          how long to wait before another try
addresses        checks and shortens addresses
fsspec_storages  s3://, gs:// and others
fsspec_program   program under the image's Python: fetches through fsspec
staging          prepares files aside, then moves them into place
archives         reads untrusted archives
unpack           unpacks them
data_cache       files that all tasks share
"""
