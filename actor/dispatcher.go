package actor

import (
	"runtime"
	"sync"
)

// dispatcher runs mailboxes on goroutines that Shutdown can wait for. A few idle ones wait for the
// next mailbox, because a fresh goroutine has to grow its stack first, which costs more than a
// short message. They end when the last actor has ended.
type dispatcher struct {
	running *sync.WaitGroup
	maxIdle int
	work    chan func()

	mu     sync.Mutex
	idle   int           // guarded by mu
	closed chan struct{} // ends the idle ones; nil while there are no actors; guarded by mu
}

func newDispatcher(running *sync.WaitGroup) *dispatcher {
	return &dispatcher{running: running, maxIdle: 4 * runtime.GOMAXPROCS(0), work: make(chan func())}
}

// Schedule starts work on a mailbox.
func (d *dispatcher) Schedule(work func()) {
	select {
	case d.work <- work:
	default:
		d.running.Go(func() { d.run(work) })
	}
}

// run processes a mailbox, and then waits for others unless enough goroutines are idle.
func (d *dispatcher) run(work func()) {
	// A Receive that ends its goroutine (as a failing test does) leaves the mailbox locked; going on with
	// it on another goroutine unlocks it.
	defer func() {
		if work != nil {
			d.Schedule(work)
		}
	}()
	for work != nil {
		work()
		work = nil
		closed, ok := d.acquireIdle()
		if !ok {
			return
		}
		select {
		case work = <-d.work:
		case <-closed:
		}
		d.releaseIdle()
	}
}

// acquireIdle counts the goroutine as idle. It returns false when enough are idle, or when there
// are no actors.
func (d *dispatcher) acquireIdle() (closed chan struct{}, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed == nil || d.idle >= d.maxIdle {
		return nil, false
	}
	d.idle++
	return d.closed, true
}

func (d *dispatcher) releaseIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle--
}

// open lets goroutines wait for work; it is called with the first actor. close ends the idle ones;
// it is called with the end of the last actor.
func (d *dispatcher) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = make(chan struct{})
}

func (d *dispatcher) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed != nil {
		close(d.closed)
		d.closed = nil
	}
}

// Throughput is Proto.Actor's default: how many messages are handled before others get their turn.
func (*dispatcher) Throughput() int { return 300 }
