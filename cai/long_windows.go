package cai

const isWindows = 1
