package grpcpeer

import (
	"net"
	"sync"
	"time"
)

// maxLimitedHosts is how many addresses are counted one by one. Further ones share one count.
const maxLimitedHosts = 256

// rateLimiter is a token bucket per remote host: burst attempts at once, then rate attempts per
// second. It protects against one host's flood without locking out the others. Memory is bounded by
// maxLimitedHosts. It is safe for concurrent use.
type rateLimiter struct {
	rate, burst float64
	mu          sync.Mutex
	byHost      map[string]*bucket // by host; guarded by mu
}

// bucket is the number of attempts that a host had left at a point in time. It refills lazily, when
// it is looked at.
type bucket struct {
	left float64
	at   time.Time
}

// newRateLimiter returns a limiter whose buckets are full. rate is in attempts per second.
func newRateLimiter(rate float64, burst int) *rateLimiter {
	return &rateLimiter{rate: rate, burst: float64(burst), byHost: map[string]*bucket{}}
}

// allow reports whether host may try once more at now, and takes a token if so. Attempts that are
// not allowed cost nothing, so that a host that keeps trying recovers at the same rate.
func (p *rateLimiter) allow(host string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.bucket(host, now)
	if one.left < 1 {
		return false
	}
	one.left--
	return true
}

// refund returns the token of an attempt that turned out to be legitimate. allow must take it
// first, because an attempt counts while its outcome is unknown.
func (p *rateLimiter) refund(host string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.bucket(host, now)
	one.left = min(p.burst, one.left+1)
}

// bucket returns host's bucket, refilled up to now. When there are too many hosts, full buckets are
// dropped, since a new one would be full as well; if none is full, host shares the bucket "". The
// caller holds p.mu.
func (p *rateLimiter) bucket(host string, now time.Time) *bucket {
	if p.byHost[host] == nil && len(p.byHost) >= maxLimitedHosts {
		for h, one := range p.byHost {
			if p.filled(one, now) >= p.burst { // forgetting it makes no difference
				delete(p.byHost, h)
			}
		}
		if len(p.byHost) >= maxLimitedHosts {
			host = ""
		}
	}
	one := p.byHost[host]
	if one == nil {
		one = &bucket{left: p.burst, at: now}
		p.byHost[host] = one
	}
	one.left, one.at = p.filled(one, now), now
	return one
}

func (p *rateLimiter) filled(one *bucket, now time.Time) float64 {
	return min(p.burst, one.left+p.rate*max(0, now.Sub(one.at).Seconds()))
}

// hostOf returns the host part of an address, or the whole address if it has no port (pipes in
// tests).
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
