package grpcpeer

import (
	"net"
	"sync"
	"time"
)

// maxLimitedHosts is how many addresses are counted one by one. Further ones share one count.
const maxLimitedHosts = 256

// rateLimiter bounds how often each address may try something: burst times at once, and then rate times a second.
type rateLimiter struct {
	rate, burst float64
	mu          sync.Mutex
	byHost      map[string]*bucket // by host; guarded by mu
}

// bucket is how many tries an address has left, as it was at some time.
type bucket struct {
	left float64
	at   time.Time
}

func newRateLimiter(rate float64, burst int) *rateLimiter {
	return &rateLimiter{rate: rate, burst: float64(burst), byHost: map[string]*bucket{}}
}

// allow reports whether one more try is within the rate, and counts it then.
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

// refund takes back the count of a try that succeeded.
func (p *rateLimiter) refund(host string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.bucket(host, now)
	one.left = min(p.burst, one.left+1)
}

// bucket returns the bucket of host, filled up to now. The caller holds p.mu.
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

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
