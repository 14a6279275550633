package backoff_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"symbio/internal/actor/backoff"
)

func ExampleDelay() {
	for failures := 1; failures <= 4; failures++ {
		fmt.Println(backoff.Delay(failures, time.Second, 5*time.Second))
	}
	// Output:
	// 1s
	// 2s
	// 4s
	// 5s
}

func TestDelayIsBounded(t *testing.T) {
	for _, c := range []struct {
		failures         int
		first, max, want time.Duration
	}{
		{0, time.Second, time.Minute, time.Second},
		{-1, time.Second, time.Minute, time.Second},
		{1, time.Hour, time.Minute, time.Minute},
		{7, time.Second, time.Minute, time.Minute},
		{math.MaxInt, time.Second, 24 * time.Hour, 24 * time.Hour},
	} {
		if got := backoff.Delay(c.failures, c.first, c.max); got != c.want {
			t.Errorf("Delay(%d, %v, %v) = %v, want %v", c.failures, c.first, c.max, got, c.want)
		}
	}
}

func TestJitterTakesOffAtMostItsPart(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := backoff.Jitter(10, 5)
		if d < 8 || d > 10 {
			t.Fatalf("got %d, want 8 to 10", d)
		}
		seen[d] = true
	}
	if len(seen) != 3 {
		t.Errorf("got %v, want 8, 9 and 10", seen)
	}
	if d := backoff.Jitter(0, 2); d != 0 {
		t.Errorf("got %v of 0", d)
	}
}
