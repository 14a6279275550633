// Package skillcmd has the command `symbio skills`: it lists, shows, checks, fetches, trusts and
// switches skills.
//
// Skills are found in three ways: the running node of this directory knows its own; without one the
// directory is scanned as a node would do it (list.go); and other nodes share theirs (fetch.go).
package skillcmd
