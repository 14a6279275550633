package agent

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// What is written without encoding/json is what that writes.
func TestArgumentsAreWrittenForPeopleAsJSONIs(t *testing.T) {
	value := rapid.OneOf(rapid.String().AsAny(), rapid.StringMatching(`[ -~]{0,9}`).AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(), rapid.Float64().AsAny(), rapid.SliceOf(rapid.String()).AsAny(), rapid.Just[any](nil))
	rapid.Check(t, func(r *rapid.T) {
		args := rapid.MapOf(rapid.OneOf(rapid.StringMatching(`[a-z_<]{1,6}`), rapid.String()), value).Draw(r, "args")
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(args); err != nil {
			r.Fatal(err)
		}
		if got := readable(args); !bytes.Equal(got, bytes.TrimSpace(want.Bytes())) {
			r.Errorf("%#v is written as %s, want %s", args, got, want.Bytes())
		}
	})
	if got := string(readable(nil)); got != "null" {
		t.Errorf("nothing is written as %s", got)
	}
}
