package agent

import (
	"math"
	"testing"
)

func TestArgumentsAreReadableJSON(t *testing.T) {
	for _, c := range []struct {
		args map[string]any
		want string
	}{
		{nil, "null"},
		{map[string]any{}, "{}"},
		{map[string]any{"command": "a <b >c && d", "timeout": int64(3), "all": true}, `{"all":true,"command":"a <b >c && d","timeout":3}`},
		{map[string]any{"text": "\"a\"\n\\"}, `{"text":"\"a\"\n\\"}`},
		{map[string]any{"share": math.NaN()}, ""},
	} {
		if got := string(readable(c.args)); got != c.want {
			t.Errorf("%#v is written as %s, want %s", c.args, got, c.want)
		}
	}
}
