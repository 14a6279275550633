// Package clustercmd has the commands that make and change a cluster of nodes: `symbio cluster` and `symbio join`.
package clustercmd
