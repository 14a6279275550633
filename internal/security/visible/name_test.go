package visible_test

import (
	"testing"
	"time"

	"symbio/internal/security/visible"
)

func TestIsNamed(t *testing.T) {
	const id = "3845ff2409939451c8a233049edfa089"
	for typed, want := range map[string]bool{id: true, "3845ff": true, "3845ff24": true, "kitchen": true, "3845f": false, "3845ff3": false,
		"": false, "kitch": false, id + "0": false} {
		if visible.IsNamed(typed, "kitchen", id) != want {
			t.Errorf("%q names kitchen %s: %v, want %v", typed, id, !want, want)
		}
	}
	if !visible.IsID("7", "7") {
		t.Error("a short id does not name its thing")
	}
}

func TestPlural(t *testing.T) {
	for n, want := range map[int]string{0: "0 lines, 0 directories, 0 keys", 1: "1 line, 1 directory, 1 key",
		2: "2 lines, 2 directories, 2 keys"} {
		if got := visible.Plural(n, "line") + ", " + visible.Plural(n, "directory") + ", " + visible.Plural(n, "key"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestDurationIsSaidAsPeopleDo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Hour: "1 hour", 90 * time.Minute: "90 minutes", 48 * time.Hour: "2 days", 10 * time.Second: "10s", 1500 * time.Millisecond: "1.5s",
	} {
		if got := visible.Duration(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
