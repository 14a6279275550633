// Package mcpcmd has the command `symbio mcp`: it lists, tries, trusts and edits the servers of the Model
// Context Protocol that a node of this directory would have.
package mcpcmd
