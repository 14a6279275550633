package peers

import (
	"testing"
	"time"

	"symbio/agent/node/config"
	"symbio/internal/agent/lending"
)

func TestCallMayLastAsLongAsWhatIsLent(t *testing.T) {
	c := config.Default()
	if got := limits(c).MaxDeadline; got != 30*time.Minute {
		t.Errorf("calls last up to %v where nothing is lent, want 30m", got)
	}
	c.Capabilities = []config.Capability{{Name: lending.Capability, Timeout: 2 * time.Hour, Lending: config.Lending{Agents: []string{"general"}}}}
	if got := limits(c).MaxDeadline; got <= 2*time.Hour || got > 2*time.Hour+time.Minute {
		t.Errorf("calls last up to %v where agents live for 2h", got)
	}
}
