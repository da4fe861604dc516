"""Where prerequisites come from. Each is loaded when it is needed.

base         the interface of a source
files        files of this machine
http         addresses
marketplace  a marketplace: folder or URL
git          commits of git servers
registry     digests of container images
pinning      asks several servers at once
urls         which addresses may be asked
"""
