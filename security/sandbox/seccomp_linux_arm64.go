package sandbox

import "golang.org/x/sys/unix"

// nativeArch is the architecture in struct seccomp_data.
const nativeArch = unix.AUDIT_ARCH_AARCH64

// arm64 never had these calls.
var oldForks, oldMetadata []int

// settingModes are all calls but openat2 that can set the mode of a file, with the arguments that
// have it.
var settingModes = map[int]modeAt{
	unix.SYS_FCHMOD: {mode: offArg1}, unix.SYS_FCHMODAT: {mode: offArg2}, unix.SYS_FCHMODAT2: {mode: offArg2},
	unix.SYS_OPENAT: {mode: offArg3, flags: offArg2}, unix.SYS_MKNODAT: {mode: offArg2},
}
