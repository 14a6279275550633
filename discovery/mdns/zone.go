package mdns

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/time/rate"
)

const (
	// A spoofed question makes this node send its answer, which is several times longer, to a
	// victim. So few per second do no harm, and a burst is enough for the start of a whole LAN.
	answersPerSecond = 10
	answersBurst     = 30

	// filterWait is how long to wait for this source's own listener to see the same packet, on a
	// busy machine. filterWindow is for how long a question that it saw allows an answer.
	// filterElsewhere is for how long a question from another interface explains what the server
	// received.
	filterWait      = 50 * time.Millisecond
	filterWindow    = 200 * time.Millisecond
	filterElsewhere = 20 * time.Millisecond
)

// zone answers questions about this node on one interface. It implements the library's Zone
// interface. It may be called concurrently. After retire it answers nothing.
type zone struct {
	me     self
	addrs  []netip.Addr
	bucket *rate.Limiter
	filter *questionFilter // nil: every question is one to answer
	index  int             // of the interface

	retired chan struct{} // closed by retire
	mu      sync.Mutex
	closed  bool // guarded by mu
	calls   sync.WaitGroup
}

// newZone returns the zone of interface i. filter decides which questions to answer; nil answers
// all.
func newZone(me self, i iface, g *questionFilter) *zone {
	return &zone{
		me: me, addrs: i.addrs(), index: i.Index, filter: g,
		bucket: rate.NewLimiter(answersPerSecond, answersBurst), retired: make(chan struct{}),
	}
}

// open returns a zone without a filter, for questions whose sender the loop knows. It shares the
// rate limit, because it answers the same askers.
func (z *zone) open(i iface) *zone {
	o := newZone(z.me, i, nil)
	o.bucket = z.bucket
	return o
}

// Records returns the answer to q, or nil if there is none, if no neighbor asked, or if the rate
// limit is reached. It may block for filterWait.
func (z *zone) Records(q dns.Question) []dns.RR {
	if !z.acquire() {
		return nil
	}
	defer z.calls.Done()
	out := z.me.answers(q, z.me.records(z.addrs, recordTTL, false))
	if len(out) == 0 || z.filter != nil && !z.filter.allow(z.index, z.retired) || !z.bucket.Allow() {
		return nil
	}
	return out
}

// acquire counts a call in, unless the zone has been retired.
func (z *zone) acquire() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	if !z.closed {
		z.calls.Add(1)
	}
	return !z.closed
}

// retire makes the zone answer nothing and waits for the calls in progress. It may be called more
// than once.
func (z *zone) retire() {
	z.mu.Lock()
	if !z.closed {
		z.closed = true
		close(z.retired)
	}
	z.mu.Unlock()
	z.calls.Wait()
}

// questionFilter tells zones which questions came from neighbors on their interface. The library's
// server cannot tell: it receives everything sent to port 5353, on Linux over any interface, and
// does not pass on the sender. An attacker elsewhere could make it send answers to a victim.
//
// The source's own listener sees the same multicasts with sender and interface. So a zone answers
// as many questions as the listener saw on the zone's interface within filterWindow. It is safe for
// concurrent use.
type questionFilter struct {
	closed atomic.Bool // nothing passes: the loop answers by itself

	mu        sync.Mutex
	questions map[int]questionCount // guarded by mu; by interface index, 0 for questions from elsewhere
	changed   chan struct{}         // guarded by mu; closed and replaced when a question is heard
}

// questionCount counts the questions of one interface that no zone has answered yet.
type questionCount struct {
	questions int
	last      time.Time
}

// newQuestionFilter returns a filter that has seen no questions.
func newQuestionFilter() *questionFilter {
	return &questionFilter{questions: map[int]questionCount{}, changed: make(chan struct{})}
}

// addQuestions records that questions for this node's records arrived on an interface; index 0
// stands for questions from elsewhere, which must not be answered.
func (g *questionFilter) addQuestions(index, questions int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	h := g.questions[index]
	if time.Since(h.last) >= filterWindow {
		h.questions = 0
	}
	g.questions[index] = questionCount{h.questions + questions, time.Now()}
	close(g.changed)
	g.changed = make(chan struct{})
}

// allow reports whether to answer a question, because a neighbor on the interface asked one. It
// waits up to filterWait for the listener, which may be later than the server. Each recorded
// question allows one answer.
func (g *questionFilter) allow(index int, retired <-chan struct{}) bool {
	if g.closed.Load() {
		return false
	}
	late := time.NewTimer(filterWait)
	defer late.Stop()
	for {
		near, elsewhere, changed := g.acquire(index)
		if near || elsewhere {
			return near
		}
		select {
		case <-changed:
		case <-late.C:
			return false
		case <-retired:
			return false
		}
	}
}

// acquire takes one recorded question of the interface if there is one (near). elsewhere reports
// that a question from another interface explains what the server received; changed is closed when a
// further question is recorded.
func (g *questionFilter) acquire(index int) (near, elsewhere bool, changed <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, h := range g.questions {
		switch age := time.Since(h.last); {
		case i == index && h.questions > 0 && age < filterWindow:
			near = true
			g.questions[i] = questionCount{h.questions - 1, h.last}
		case i != index && age < filterElsewhere:
			elsewhere = true
		}
	}
	return near, elsewhere, g.changed
}
