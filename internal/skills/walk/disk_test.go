package walk

import (
	"testing"
	"time"
)

func TestMarkIsTrustedOnceItsFileHasBeenLeftAlone(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	at := func(d time.Duration) int64 { return now.Add(d).UnixNano() }
	for about, row := range map[string]struct {
		m    Mark
		want bool
	}{
		"nothing there":            {Mark{}, true},
		"an hour old":              {Mark{mtime: at(-time.Hour), ctime: at(-time.Hour)}, true},
		"three seconds old":        {Mark{mtime: at(-3 * time.Second)}, true},
		"a second old":             {Mark{mtime: at(-time.Second), ctime: at(-time.Second)}, false},
		"of this moment":           {Mark{mtime: at(0)}, false},
		"of tomorrow":              {Mark{mtime: at(24 * time.Hour)}, false},
		"of tomorrow, since today": {Mark{mtime: at(24 * time.Hour), ctime: at(-time.Minute)}, true},
	} {
		if got := row.m.Settled(now); got != row.want {
			t.Errorf("%s: got %t, want %t", about, got, row.want)
		}
	}
}
