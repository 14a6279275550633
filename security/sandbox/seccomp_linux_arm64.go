package sandbox

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_AARCH64

// arm64 never had these calls.
var oldForks, oldMetadata []int
