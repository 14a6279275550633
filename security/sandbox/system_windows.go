package sandbox

// systemNames are the variables that programs of this system cannot start without.
var systemNames = []string{"SystemRoot", "TEMP", "TMP", "PATHEXT", "USERPROFILE"}

// ownGroup leaves the command as it is: without a job object, only the command itself is ended.
func ownGroup(*command) {}
