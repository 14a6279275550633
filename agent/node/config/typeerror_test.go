package config_test

import (
	"strings"
	"testing"

	"symbio/agent/node/config"
)

// A value of a wrong type is reported with its line, its key, and what it has to be.
func TestTypeErrorNamesTheKey(t *testing.T) {
	for text, want := range map[string]string{
		"limits: {agents: lots}":                "f: line 1: limits.agents has to be a whole number, not \"lots\"",
		"log: {level: info}\nnode: [3]":         "line 2: node has to be a mapping of keys",
		"discovery:\n  mdns: maybe":             "line 2: discovery.mdns has to be true or false, not \"maybe\"",
		"budget: {wall: soon}":                  "budget.wall has to be how long, such as 30s or 5m, not \"soon\"",
		"discovery: {peers: here}":              "discovery.peers has to be a list",
		"capabilities:\n- name: a\n  exec: run": "line 3: capabilities.0.exec has to be a list",
	} {
		if _, _, err := config.Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
