package skills

import (
	"testing"
	"time"
)

func TestAMarkIsTrustedOnceItsFileHasBeenLeftAlone(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(d time.Duration) int64 { return now.Add(d).UnixNano() }
	for about, row := range map[string]struct {
		m    mark
		want bool
	}{
		"nothing there":            {mark{}, true},
		"an hour old":              {mark{mtime: at(-time.Hour), ctime: at(-time.Hour)}, true},
		"three seconds old":        {mark{mtime: at(-3 * time.Second)}, true},
		"a second old":             {mark{mtime: at(-time.Second), ctime: at(-time.Second)}, false},
		"of this moment":           {mark{mtime: at(0)}, false},
		"of tomorrow":              {mark{mtime: at(24 * time.Hour)}, false},
		"of tomorrow, since today": {mark{mtime: at(24 * time.Hour), ctime: at(-time.Minute)}, true},
	} {
		if got := row.m.settled(now); got != row.want {
			t.Errorf("%s: got %t, want %t", about, got, row.want)
		}
	}
}
