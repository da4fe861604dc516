"""The images of a job: pulled once each, and pinned by a lock file.

images         pulls each image once
pulls          the progress of one pull
pinned_images  images pinned by digest
image_pins     pins of local images, for `kedge lock`
"""
