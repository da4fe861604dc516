"""The bundle: a folder that holds the runtime and a Python of its own, for images that have neither.

build            what the rest of kedge uses: a bundle that is ready
cache            bundles that were built before, by what they were built from
prune            what the cache holds, and what may go
uses             which runs in clusters use a bundle
repair           checks a cached bundle and mends it
assemble         writes a bundle into an empty folder
contents         every file of a bundle: its place, layer and origin
layers           the layers core, net, init, ssh and shell
busybox          the program that is the image's shell
kedge_files      which of kedge's own files go into which layer
modules          which modules of Python and of packages a layer needs
machine          this machine's interpreter, loader and shared libraries
libraries        where shared libraries come from, and their licences
elf              what has to be read from ELF files
origins          origins and licences of all files
spdx             licences by their SPDX names
stubs            the shell scripts that start a bundle's interpreter
manifest         MANIFEST.json: every file and its SHA-256
export           a bundle as a folder, an archive or an image
tar              a bundle as a reproducible tar archive
oci              a bundle as an OCI image
tree             what the complete image of the runtime holds besides the bundle
compile_program  program: compiles modules to byte code
import_program   program: imports modules and lists what came with them
install_program  program in a bundle: copies it to another place
"""
