package grpcpeer

import (
	"net"
	"sync"
	"time"
)

// pacedHosts is how many addresses are counted one by one. When there are more, the rest share one count.
const pacedHosts = 256

// pace bounds how often each address may try something: so many at once, and then so many a second.
type pace struct {
	rate, burst float64
	mu          sync.Mutex
	of          map[string]*purse // guarded by mu
}

// purse is how many tries an address has left, as it was at some time.
type purse struct {
	left float64
	at   time.Time
}

func newPace(rate float64, burst int) *pace {
	return &pace{rate: rate, burst: float64(burst), of: map[string]*purse{}}
}

// allow reports whether one more try is all right, and counts it if it is.
func (p *pace) allow(host string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.purse(host, now)
	if one.left < 1 {
		return false
	}
	one.left--
	return true
}

// forgive gives a try back that turned out to be what it should.
func (p *pace) forgive(host string, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.purse(host, now)
	one.left = min(p.burst, one.left+1)
}

// purse is that of host, filled up to now. The caller holds p.mu.
func (p *pace) purse(host string, now time.Time) *purse {
	if p.of[host] == nil && len(p.of) >= pacedHosts {
		for h, one := range p.of {
			if p.filled(one, now) >= p.burst { // forgetting it makes no difference
				delete(p.of, h)
			}
		}
		if len(p.of) >= pacedHosts {
			host = ""
		}
	}
	one := p.of[host]
	if one == nil {
		one = &purse{left: p.burst, at: now}
		p.of[host] = one
	}
	one.left, one.at = p.filled(one, now), now
	return one
}

func (p *pace) filled(one *purse, now time.Time) float64 {
	return min(p.burst, one.left+p.rate*max(0, now.Sub(one.at).Seconds()))
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
