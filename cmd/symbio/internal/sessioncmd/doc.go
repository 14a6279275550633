// Package sessioncmd has the command `symbio sessions`: it lists, shows, searches, exports, renames,
// forks and deletes the conversations that nodes keep.
//
// Sessions of this machine are read from the files of the nodes' stores, which works beside a running
// node and without one (files.go). Those of another node are read over the capability sessions.read
// (command.go).
package sessioncmd
