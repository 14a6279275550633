// Package install puts skills from elsewhere into the skills of a user or of a project, and keeps
// in a lock file the files that it has put there.
//
// A source is a git repository, a folder, an archive or another node. Its skills are read as data:
// nothing is checked out or unpacked, and nothing of a source is executed. The written files have
// passed the checks of package share, so an installed skill has plain files of bounded number and
// size, whose names mean the same on every system.
//
// The lock file pins each skill by its commit and by the hash of all its files. It is meant to be
// committed, and is read as hostile input. A change is planned first, so that a person can see the
// files, the rules and the differences; Apply then writes exactly what was planned.
//
// The package asks no person and grants nothing: the caller decides whether to apply a Change. It
// does not lock out other processes: of two that install the same skill at a time, one wins.
package install
