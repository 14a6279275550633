package session_test

import (
	"testing"

	"symbio/agent/session"
	"symbio/agent/session/sessiontest"
)

func TestMemory(t *testing.T) {
	sessiontest.Run(t, func(*testing.T) session.Store { return &session.Memory{} })
}
