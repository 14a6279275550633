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
	// A spoofed question makes us send its answer, several times as long, to somebody else. So few a second do no
	// harm, and a burst serves the start of a whole LAN.
	answersPerSecond = 10
	answersBurst     = 30

	filterWait      = 50 * time.Millisecond  // for our own listener to see the same packet, on a busy machine
	filterWindow    = 200 * time.Millisecond // in which a question heard is one that the server is about to answer
	filterElsewhere = 20 * time.Millisecond  // in which a question from elsewhere explains what the server received
)

// zone answers questions about this node for one interface; it implements the library's mdns.Zone. It may be called
// concurrently; after retire it answers nothing and no call is under way.
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

func newZone(me self, i iface, g *questionFilter) *zone {
	return &zone{
		me: me, addrs: i.addrs(), index: i.Index, filter: g,
		bucket: rate.NewLimiter(answersPerSecond, answersBurst), retired: make(chan struct{}),
	}
}

// open is the same zone for questions that the loop has seen with their senders.
func (z *zone) open(i iface) *zone {
	o := newZone(z.me, i, nil)
	o.bucket = z.bucket
	return o
}

// Records returns what is to be answered to q, which may be nothing. It may wait for a moment.
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

func (z *zone) acquire() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	if !z.closed {
		z.calls.Add(1)
	}
	return !z.closed
}

// retire ends answering and waits for the calls that are under way.
func (z *zone) retire() {
	z.mu.Lock()
	if !z.closed {
		z.closed = true
		close(z.retired)
	}
	z.mu.Unlock()
	z.calls.Wait()
}

// questionFilter tells zones which questions their interface's neighbours really asked. The library's server does not: it
// receives what is sent to port 5353 from anywhere, and on Linux what any interface receives, and its zone sees no
// sender. Our own listener hears the same multicasts with sender and interface, so a zone answers as many questions as
// the listener heard on the zone's interface at that time. Safe for concurrent use.
type questionFilter struct {
	closed atomic.Bool // nothing passes: the loop answers by itself

	mu        sync.Mutex
	questions map[int]questionCount // guarded by mu; by interface index, 0 for questions from elsewhere
	changed   chan struct{}         // guarded by mu; closed and replaced when a question is heard
}

// questionCount counts questions that no zone has answered yet.
type questionCount struct {
	questions int
	last      time.Time
}

func newQuestionFilter() *questionFilter {
	return &questionFilter{questions: map[int]questionCount{}, changed: make(chan struct{})}
}

// addQuestions notes that questions for our records came over the interface; 0 stands for one we do not answer.
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

// allow says whether a question is one that a neighbour on the interface asked, waiting for the listener if it is
// late. Each question heard lets one pass.
func (g *questionFilter) allow(index int, over <-chan struct{}) bool {
	if g.closed.Load() {
		return false
	}
	late := time.NewTimer(filterWait)
	defer late.Stop()
	for {
		near, elsewhere, news := g.acquire(index)
		if near || elsewhere {
			return near
		}
		select {
		case <-news:
		case <-late.C:
			return false
		case <-over:
			return false
		}
	}
}

func (g *questionFilter) acquire(index int) (near, elsewhere bool, news <-chan struct{}) {
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
