// Package clustercmd has the commands that make and change a cluster of nodes: `symbio cluster` and
// `symbio cluster join`. They work on the state directory of this machine; a node that runs here is told to
// reload.
package clustercmd
