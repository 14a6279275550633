// Package skillcmd has the command `symbio skills`: it lists, shows, checks, fetches, trusts and switches skills.
package skillcmd
