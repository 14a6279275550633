// Package file compares paths with the path patterns of permission rules, and finds the files that rules deny.
//
// The one idea: a path has two names, the one that was written and the one that remains after every symbolic link is
// followed (Location). An allow rule has to match both, a deny rule needs only one of them.
//
// Paths that are compared are absolute, clean and slash-separated; the root is "" (Clean). The package reads the file
// system only to follow links, to list directories and to look for denied files. It never writes. Except and Pattern are
// values that many goroutines may use; Links and Search are for one goroutine.
package file
