"""Options that Pulsar needs of Java, for the broker and for its tools."""

from __future__ import annotations

OPENED_PACKAGES = [  # the packages that Pulsar's own launcher opens
    "java.base/java.io",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
]
PULSAR_JAVA_OPTIONS = [
    *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED_PACKAGES),
    "-XX:MaxDirectMemorySize=256m",
    "-XX:+ExitOnOutOfMemoryError",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dorg.apache.pulsar.shade.io.netty.tryReflectionSetAccessible=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dlog4j.shutdownHookEnabled=false",
    "-Dlog4j2.is.webapp=false",
]
