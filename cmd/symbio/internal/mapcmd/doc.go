// Package mapcmd gives each item of a long input to an agent or a capability of the community: `symbio map`.
//
// Items are read one by one and worked on side by side; the node chooses their places (Control.RunTask). A journal keeps
// what becomes of each item at once. So the same command goes on after Ctrl-C or kill -9, the output has the order of the
// input, and results take no memory. An item that may have been worked on is begun anew only if its work is repeatable;
// else it is reported lost.
package mapcmd
