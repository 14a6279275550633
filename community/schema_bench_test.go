package community

import (
	"encoding/json"
	"strings"
	"testing"
)

// BenchmarkSchemaCheck is one check of a payload. Its floor is encoding/json reading the same text into
// an any.
func BenchmarkSchemaCheck(b *testing.B) {
	s, err := compile(json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","maxLength":100},
		"tags":{"type":"array","items":{"type":"string"}}},"required":["id","name"],"additionalProperties":false}`))
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []struct {
		name string
		tags int
	}{{"100B", 5}, {"64KiB", 8000}} {
		payload := []byte(`{"id":7,"name":"a name of some length","tags":["` + strings.Repeat(`a","b","`, size.tags) + `c"]}`)
		b.Run(size.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := s.check(payload, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(size.name+"/floor", func(b *testing.B) {
			for b.Loop() {
				var v any
				if err := json.Unmarshal(payload, &v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
