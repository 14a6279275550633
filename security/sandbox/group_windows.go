package sandbox

// ownGroup leaves the command as it is: without a job object, only the command itself is ended.
func ownGroup(*command) {}
