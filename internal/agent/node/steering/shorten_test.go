package steering

import (
	"strings"
	"testing"
)

func TestShortArgsKeepTheirNames(t *testing.T) {
	long := strings.Repeat("x", 10*maxToolRunes)
	for args, want := range map[string]string{
		`{"content":"` + long + `","file_path":"a"}`: `{"content":"` + long[:maxToolRunes/2-1] + `…","file_path":"a"}`,
		`["` + long + `"]`:                           `"[\"` + long[:maxToolRunes-3] + `…"`,
	} {
		if got := string(shortenArgs([]byte(args))); got != want {
			t.Errorf("of %.40s… got %s, want %s", args, got, want)
		}
	}
}
