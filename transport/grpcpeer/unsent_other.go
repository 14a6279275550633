//go:build !linux && !darwin

package grpcpeer

import "net"

func limitUnsent(net.Conn) {}
