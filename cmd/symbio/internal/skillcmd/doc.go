// Package skillcmd has the command `symbio skills`: it lists, shows, checks, fetches, trusts and
// switches skills.
//
// Skills are found in three ways: the running node of this directory knows its own; without one the
// directory is scanned as a node would do it (list.go); and other nodes share theirs (fetch.go).
//
// Three stores below the state directory are the user's and shared by all nodes of this machine:
// the skills that were switched off (internal/skills/choice), the records of trust (internal/skills/trust) and the
// fetched skills (internal/skills/share). A command that changes one of them makes the running nodes scan
// again; see rescan.
package skillcmd
