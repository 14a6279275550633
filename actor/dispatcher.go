package actor

import (
	"runtime"
	"sync"
)

// dispatcher runs mailboxes on goroutines that Shutdown waits for. A few that have nothing to do stay
// for the next one: a fresh goroutine has to grow its stack first, which costs more than a short message.
// They end with the last actor.
type dispatcher struct {
	running *sync.WaitGroup
	most    int // who may stay
	work    chan func()

	mu   sync.Mutex
	idle int           // guarded by mu
	home chan struct{} // closed when nobody is to stay; nil while there are no actors; guarded by mu
}

func newDispatcher(running *sync.WaitGroup) *dispatcher {
	return &dispatcher{running: running, most: 4 * runtime.GOMAXPROCS(0), work: make(chan func())}
}

// Schedule starts work on a mailbox.
func (d *dispatcher) Schedule(work func()) {
	select {
	case d.work <- work:
	default:
		d.running.Go(func() { d.labour(work) })
	}
}

// labour works off a mailbox, and then others while there are not too many who do.
func (d *dispatcher) labour(work func()) {
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
		home, ok := d.stay()
		if !ok {
			return
		}
		select {
		case work = <-d.work:
		case <-home:
		}
		d.leave()
	}
}

func (d *dispatcher) stay() (home chan struct{}, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.home == nil || d.idle >= d.most {
		return nil, false
	}
	d.idle++
	return d.home, true
}

func (d *dispatcher) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle--
}

// open is called with the first actor, and close with the end of the last one.
func (d *dispatcher) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.home = make(chan struct{})
}

func (d *dispatcher) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.home != nil {
		close(d.home)
		d.home = nil
	}
}

// Throughput is Proto.Actor's default: how many messages are handled before others get their turn.
func (*dispatcher) Throughput() int { return 300 }
