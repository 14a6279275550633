// Package backoff computes the pauses between repeated attempts.
package backoff

import (
	"math/rand/v2"
	"time"
)

// Delay returns the pause after so many failures in a row: first, doubled with each further failure, and at most max.
func Delay(failures int, first, max time.Duration) time.Duration {
	d := first
	for i := 1; i < failures && d < max; i++ {
		d *= 2
	}
	return min(d, max)
}

// Jitter returns d less a random part of up to d/divisor, so that those that failed together do not try again together.
// d must not be negative.
func Jitter(d time.Duration, divisor int64) time.Duration {
	return d - rand.N(d/time.Duration(divisor)+1)
}
