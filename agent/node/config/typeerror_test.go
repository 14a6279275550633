package config_test

import (
	"strings"
	"testing"

	"symbio/agent/node/config"
)

// A value of a wrong type is reported with its line, its key, and what it has to be.
func TestTypeErrorNamesTheKey(t *testing.T) {
	for text, want := range map[string]string{
		"limits: {connections: lots}":           "f: line 1: limits.connections has to be a whole number, not \"lots\"",
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

// Each mistake is reported with the file, the line and the key.
func TestErrorNamesFileLineAndKey(t *testing.T) {
	for text, want := range map[string]string{
		"- a":                                       "f: line 1: write keys and their values",
		"\tmodel: auto":                             "f: line 1: found character that begins no value, such as a tab",
		"labels:\n  a: b\n\tc: d":                   "f: line 2: found a tab character that violates indentation",
		"model: [1":                                 "f: line 1: did not find",
		"log: {level: loud}":                        "f: line 1: unknown key level; the flag --log-level",
		"budget: {peers: 1}":                        "f: line 1: unknown key peers",
		"\nmodel: opnai:gpt":                        "f: line 2: model: \"opnai:gpt\" names no model",
		"\nsession: {resume: always}":               "f: line 2: session.resume: ",
		"\nsandbox:\n  preset: nope":                "f: line 3: sandbox.preset ",
		"\ncontext_windows:\n  x: 5":                "f: line 3: context_windows: ",
		"\nauthorize:\n  - {from: x, send: [a]}":    "f: line 3: authorize: ",
		"\nbudget:\n  wall: -1s":                    "f: line 3: budget.wall is negative",
		"\nlimits:\n  message: 5\n  connections: 0": "f: line 4: limits.connections has",
		"\ndiscovery:\n  peers: [nohost]":           "f: line 3: discovery.peers: ",
		"capabilities:\n- {name: a, exec: [x]}\n- {name: b c, exec: [x]}": "f: line 3: capabilities[1] \"b c\": name",
		"approvals: {timeout: 0s}\nmetrics: x":                            "f: line 2: metrics: ",
	} {
		if _, _, err := config.Parse("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
