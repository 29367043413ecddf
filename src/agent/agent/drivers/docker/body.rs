//! Converts a deployment into the engine's request for one container (agreement protocol 4.1, 5.7).

use std::collections::HashMap;

use bollard::models::{
    ContainerCreateBody, DeviceMapping, EndpointSettings, HostConfig, HostConfigLogConfig, NetworkingConfig,
    PortBinding, PortMap, RestartPolicy, RestartPolicyNameEnum,
};

use crate::{
    deployment::Container,
    drivers::{DriverError, ServiceSpec},
};

/// Returns the request that creates a container.
///
/// # Errors
/// [`DriverError::Unsuitable`] for invalid ports.
pub(super) fn container_body(
    service: &ServiceSpec,
    name: &str,
    container: &Container,
    labels: HashMap<String, String>,
) -> Result<ContainerCreateBody, DriverError> {
    let ports = port_map(container)?;
    let is_private = container.network != "host";
    let networking = is_private.then(|| {
        let endpoint =
            EndpointSettings { aliases: Some(vec![name.to_owned()]), ..EndpointSettings::default() };
        NetworkingConfig { endpoints_config: Some(HashMap::from([(service.key.clone(), endpoint)])) }
    });
    let environment = service
        .environment
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .chain(container.environment.iter().cloned());
    Ok(ContainerCreateBody {
        image: Some(container.image.clone()),
        cmd: words(&container.command.0),
        entrypoint: words(&container.entrypoint.0),
        env: Some(environment.collect()),
        user: text(&container.user),
        working_dir: text(&container.working_directory),
        labels: Some(labels),
        exposed_ports: Some(ports.keys().cloned().collect()),
        host_config: Some(host_config(service, container, ports)),
        networking_config: networking,
        ..ContainerCreateBody::default()
    })
}

fn host_config(service: &ServiceSpec, container: &Container, ports: PortMap) -> HostConfig {
    let network = if container.network == "host" { "host" } else { service.key.as_str() };
    HostConfig {
        binds: words(&container.binds),
        tmpfs: Some(container.tmpfs.clone().into_iter().collect()),
        sysctls: Some(container.sysctls.clone().into_iter().collect()),
        security_opt: words(&container.security_opt),
        cap_add: words(&container.cap_add),
        devices: Some(container.devices.iter().map(|device| device_mapping(device)).collect()),
        privileged: Some(container.privileged),
        network_mode: Some(network.to_owned()),
        port_bindings: Some(ports),
        memory: memory_bytes(service, container),
        nano_cpus: (container.max_cpus > 0.0).then_some((container.max_cpus * 1e9) as i64),
        pid_mode: text(&container.pid),
        ipc_mode: text(&container.ipc),
        // The existing agents send output to syslog; the engine's own driver works on every machine and is bounded
        // by the engine's configuration.
        log_config: text(&container.log_driver)
            .map(|driver| HostConfigLogConfig { typ: Some(driver), config: None }),
        restart_policy: Some(restart_policy(service.restarts())),
        ..HostConfig::default()
    }
}

/// Returns the engine's restart policy for containers that end.
pub(super) fn restart_policy(restarts: bool) -> RestartPolicy {
    let name = if restarts { RestartPolicyNameEnum::ALWAYS } else { RestartPolicyNameEnum::NO };
    RestartPolicy { name: Some(name), maximum_retry_count: None }
}

/// Returns the container's own limit, else the memory limit of the platform variables.
fn memory_bytes(service: &ServiceSpec, container: &Container) -> Option<i64> {
    let promised = || {
        let value = service.environment.iter().find(|(name, _)| name == "HZN_RAM").map(|(_, value)| value);
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    let megabytes = if container.max_memory_mb > 0 { container.max_memory_mb } else { promised() };
    (megabytes > 0).then(|| megabytes.saturating_mul(1024 * 1024))
}

fn port_map(container: &Container) -> Result<PortMap, DriverError> {
    let mut map = PortMap::new();
    let mut add = |inner: String, host_ip: &str, host_port: String| {
        let binding = PortBinding { host_ip: text(host_ip), host_port: Some(host_port) };
        map.entry(inner).or_insert_with(|| Some(Vec::new())).get_or_insert_default().push(binding);
    };
    for port in &container.ports {
        let (numbers, protocol) = port.host_port.split_once('/').unwrap_or((&port.host_port, "tcp"));
        let (outer, inner) = numbers.split_once(':').unwrap_or((numbers, numbers));
        check_port(outer)?;
        check_port(inner)?;
        add(format!("{inner}/{protocol}"), &port.host_ip, outer.to_owned());
    }
    for port in &container.ephemeral_ports {
        let (inner, protocol) =
            port.port_and_protocol.split_once('/').unwrap_or((&port.port_and_protocol, "tcp"));
        check_port(inner)?;
        let host_ip = if port.localhost_only { "127.0.0.1" } else { "0.0.0.0" };
        add(format!("{inner}/{protocol}"), host_ip, String::new());
    }
    Ok(map)
}

fn check_port(text: &str) -> Result<(), DriverError> {
    match text.parse::<u16>() {
        Ok(_) => Ok(()),
        Err(_) => Err(DriverError::Unsuitable(format!("\"{text}\" is not a port number"))),
    }
}

fn device_mapping(device: &str) -> DeviceMapping {
    let mut parts = device.split(':');
    let outer = parts.next().unwrap_or_default().to_owned();
    let inner = parts.next().filter(|inner| !inner.is_empty()).unwrap_or(&outer).to_owned();
    let permissions = parts.next().unwrap_or("rwm").to_owned();
    DeviceMapping {
        path_on_host: Some(outer),
        path_in_container: Some(inner),
        cgroup_permissions: Some(permissions),
    }
}

fn words(words: &[String]) -> Option<Vec<String>> {
    (!words.is_empty()).then(|| words.to_vec())
}

fn text(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deployment::Deployment;

    fn body(container: &str) -> Result<ContainerCreateBody, DriverError> {
        let deployment =
            Deployment::parse(&format!("{{\"services\":{{\"web\":{container}}}}}"), "").expect("deployment");
        let environment = vec![("HZN_RAM".to_owned(), "64".to_owned())];
        let service = ServiceSpec::new("a1".to_owned(), deployment.clone(), environment);
        container_body(&service, "web", &deployment.services["web"], HashMap::new())
    }

    #[test]
    fn container_joins_the_network_of_its_agreement_under_its_name() {
        let body =
            body(r#"{"image":"x:1","environment":["A=b"],"ports":[{"HostPort":"5200:6414"}]}"#).unwrap();
        let endpoints = body.networking_config.unwrap().endpoints_config.unwrap();
        assert_eq!(endpoints["a1"].aliases, Some(vec!["web".to_owned()]));
        assert_eq!(body.env.unwrap(), ["HZN_RAM=64", "A=b"]);
        let host = body.host_config.unwrap();
        assert_eq!(host.memory, Some(64 * 1024 * 1024));
        let binding = &host.port_bindings.unwrap()["6414/tcp"].clone().unwrap()[0];
        assert_eq!(binding.host_port.as_deref(), Some("5200"));
    }

    #[test]
    fn container_on_the_host_network_joins_no_other() {
        let body =
            body(r#"{"image":"x:1","network":"host","devices":["/dev/a"],"max_memory_mb":1}"#).unwrap();
        assert_eq!(body.networking_config, None);
        let host = body.host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("host"));
        assert_eq!(host.devices.unwrap()[0].cgroup_permissions.as_deref(), Some("rwm"));
        assert_eq!(host.memory, Some(1024 * 1024));
    }

    #[test]
    fn ports_that_are_no_numbers_are_refused() {
        assert!(body(r#"{"image":"x:1","ports":[{"HostPort":"http"}]}"#).is_err());
    }
}
