// Package unix is the few calls of Linux that a sandbox is made with, under the names that
// golang.org/x/sys/unix gives them.
//
// The one idea: a package is initialised after all that it imports, and golang.org/x/sys/unix
// imports package unicode, after which the packages of most programs are ready too, and come first.
// This one imports syscall alone; see package inside for what that saves.
//
// It knows nothing of what its callers do, and checks nothing. A test compares each number with
// golang.org/x/sys/unix.
package unix
