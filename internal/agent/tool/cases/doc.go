// Package cases reads and judges files of permission cases: what a policy has to say about tool
// calls, written down so that a person can try it and a test can hold it (`symbio permissions
// test`).
//
// The one idea: a case is judged by the very code that judges an agent's calls. What it says of the
// world around the call (files, links, names and their addresses, redirects) is made in directories
// of its own or stands in the case; nothing is run, nothing is fetched, and no name is looked up.
//
// Cases are judged one after the other. While they are, the process's home directory (HOME) is one
// of the cases' own, so a program that does other things at the same time must not use this
// package.
package cases
