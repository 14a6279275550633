//go:build system && linux

package pages_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"symbio/cmd/symbio/symbiotest"
)

func TestSchemaOfEventsAcceptsEventsOfTour(t *testing.T) {
	t.Parallel()
	r := newReading(t)
	events := symbiotest.Schema(t, "events")
	text, err := r.shell("symbio demo --json").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	types := map[string]bool{}
	for _, line := range lines[:len(lines)-1] { // the last one is the result of the tour
		var value map[string]any
		if err := json.Unmarshal(line, &value); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if err := events.Validate(value); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		kind, _ := value["type"].(string)
		types[kind] = true
	}
	if len(types) < 10 {
		t.Errorf("the tour has only events %v", types)
	}
}
