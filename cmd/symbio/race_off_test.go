//go:build !race

package main

const slow = 1

func hasten() error { return nil }
